"""List general questions in several languages, which few corpora answer."""

GENERAL = tuple(
    """
Who wrote the play Romeo and Juliet?
What is the speed of light?
How do volcanoes form?
Which planet has the most rings?
What is the recipe for tiramisu?
When did the Roman empire fall?
How many players are in a rugby team?
Why is the sky blue?
What causes tides?
How do I change a flat tyre on a bicycle?
Who discovered penicillin?
What is the population of Brazil?
What does a mitochondrion do?
How long is a marathon?
Which languages are spoken in Switzerland?
Wer hat die neunte Sinfonie komponiert?
Wie weit ist der Mond von der Erde entfernt?
Wann fiel die Berliner Mauer?
Was fressen Igel?
Wie backt man einen Apfelkuchen?
Wie viele Tasten hat ein Klavier?
Welches ist das größte Tier der Welt?
Quelle est la hauteur de la tour Eiffel ?
Qui a peint Les Nymphéas ?
Combien d'os compte le corps humain ?
¿Cuál es el río más largo del mundo?
¿Quién escribió Don Quijote de la Mancha?
¿Cuántos días tiene un año bisiesto?
光合作用是什么？
长城有多长？
世界上最高的山是什么？
Кто первым полетел в космос?
Сколько струн у скрипки?
Quanti giocatori ci sono in una squadra di calcio?
How does a vaccine work?
What is a Fibonacci number?
Who was the first president of the United States?
How do bees make honey?
When was the printing press invented?
What is the chemical symbol for gold?
""".strip().splitlines()
)
